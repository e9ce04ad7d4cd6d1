/* Ignores every signal, and does not end. */
#include <signal.h>

int main(void)
{
	for (int number = 1; number < 65; number++)
		signal(number, SIG_IGN);
	for (volatile unsigned n = 0;; n++)
		;
}
