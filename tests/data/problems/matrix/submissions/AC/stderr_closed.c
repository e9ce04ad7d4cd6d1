/* Has no standard error, and reads beyond the end of its input. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;
	close(2);
	while (getc(stdin) != EOF)
		;
	printf("%d\n", a + b);
	return 0;
}
