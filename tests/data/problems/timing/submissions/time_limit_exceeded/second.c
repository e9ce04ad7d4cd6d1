/* Only the second case takes its time: clearly more than the limit, and not for good. */
#include <stdio.h>
#include <time.h>

int main(void)
{
	int given;

	if (scanf("%d", &given) != 1)
		return 1;
	while (given == 2 && clock() < CLOCKS_PER_SEC / 2)
		;
	printf("%d\n", given);
	return 0;
}
