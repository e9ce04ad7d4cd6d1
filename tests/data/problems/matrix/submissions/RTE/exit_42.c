/* Right, and ends with 42. */
#include <stdio.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;
	printf("%d\n", a + b);
	return 42;
}
