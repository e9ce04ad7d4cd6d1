/* Its last line has no end. */
#include <stdio.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;
	printf("%d", a + b);
	return 0;
}
