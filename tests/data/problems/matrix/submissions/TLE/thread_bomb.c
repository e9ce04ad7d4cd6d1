/* Starts threads for ever. */
#include <pthread.h>

static void *spin(void *nothing)
{
	for (volatile unsigned n = 0;; n++)
		;
	return nothing;
}

int main(void)
{
	pthread_t thread;
	for (;;)
		pthread_create(&thread, 0, spin, 0);
}
