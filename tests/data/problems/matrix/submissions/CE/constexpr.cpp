// Is computed by the compiler, for ever.
constexpr unsigned long forever()
{
	unsigned long n = 1;
	while (n != 0)
		n = n * 3 + 1 | 1;
	return n;
}
static_assert(forever() == 0);
