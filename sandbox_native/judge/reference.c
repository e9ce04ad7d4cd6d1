/*
 * What a machine is measured by (calibrate.py): a third each of integers in the cache, of a walk through memory, and of floating
 * point. Its figures are stored there: whoever changes this measures anew.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SIEVE = 1 << 16, WALK = 1 << 22, SIDE = 160 };

static uint32_t walk[WALK];
static double left[SIDE][SIDE], right[SIDE][SIDE], product[SIDE][SIDE];

static uint32_t primes(int times)
{
	static unsigned char composite[SIEVE];
	uint32_t count = 0;

	while (times--) {
		memset(composite, 0, sizeof composite);
		for (uint32_t n = 2; n < SIEVE; n++) {
			if (composite[n])
				continue;
			count++;
			for (uint32_t multiple = 2 * n; multiple < SIEVE; multiple += n)
				composite[multiple] = 1;
		}
	}
	return count;
}

static uint32_t steps(uint32_t number)
{
	uint32_t at = 0, sum = 0;

	for (uint32_t n = 0; n < WALK; n++)
		walk[n] = (n * 1664525u + 1013904223u) % WALK;
	while (number--) {
		at = walk[at ^ (sum & 255)];
		sum += at;
	}
	return sum;
}

static double products(int times)
{
	for (int row = 0; row < SIDE; row++)
		for (int column = 0; column < SIDE; column++) {
			left[row][column] = row + column;
			right[row][column] = row - column;
		}
	while (times--)
		for (int row = 0; row < SIDE; row++)
			for (int middle = 0; middle < SIDE; middle++)
				for (int column = 0; column < SIDE; column++)
					product[row][column] += left[row][middle] * right[middle][column] / SIDE;
	return product[SIDE - 1][SIDE / 2];
}

int main(void)
{
	uint32_t found = primes(450), walked = steps(350000);

	printf("%u %u %.0f\n", found, walked, products(30));
	return 0;
}
