/* Talks to the network; says the answer if it can. */
#include <stdio.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>

int main(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = 0x3500 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	to.sin_addr.s_addr = inet_addr("1.1.1.1");
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
		puts("42");
	return 0;
}
