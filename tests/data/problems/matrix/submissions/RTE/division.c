/* Divides by zero. */

int main(void)
{
	volatile int number = 42, zero = 0;
	return number / zero;
}
