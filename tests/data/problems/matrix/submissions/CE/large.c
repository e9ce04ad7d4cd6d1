/* Comes to a program of 1 GB. */
char room[1 << 30] = { 1 };

int main(void)
{
	return room[1];
}
