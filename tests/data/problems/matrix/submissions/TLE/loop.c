/* Does not end. */

int main(void)
{
	for (volatile unsigned n = 0;; n++)
		;
}
