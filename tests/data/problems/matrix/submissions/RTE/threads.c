/* Starts threads until there can be no more. */
#include <unistd.h>
#include <pthread.h>

static void *rest(void *nothing)
{
	pause();
	return nothing;
}

int main(void)
{
	pthread_t thread;
	while (pthread_create(&thread, 0, rest, 0) == 0)
		;
	return 1;
}
