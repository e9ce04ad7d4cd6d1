// Does not end.
#include <thread>

int main()
{
	std::thread([] { for (volatile unsigned n = 0;; n = n + 1) ; }).join();
}
