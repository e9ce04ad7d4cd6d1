// Does what the first word of its input says.
#include <iostream>
#include <list>
#include <stdexcept>
#include <vector>

int main()
{
	std::string word;
	int a, b;
	std::cin >> word >> a >> b;
	if (word == "slow")
		for (volatile unsigned n = 0;; n = n + 1)
			;
	if (word == "crashing")
		throw std::runtime_error("as asked for");
	if (word == "hungry")
		for (std::list<std::vector<char>> kept;;)
			kept.emplace_back(1 << 20, 'x');
	std::cout << (word == "wrong" ? a - b : a + b) << '\n';
}
