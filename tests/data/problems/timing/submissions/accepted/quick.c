#include <stdio.h>

int main(void)
{
	int given;

	if (scanf("%d", &given) != 1)
		return 1;
	printf("%d\n", given);
	return 0;
}
