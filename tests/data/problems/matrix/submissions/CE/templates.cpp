// Types without end, two of each.
template <int depth, typename first, typename second> struct Both {
	Both<depth + 1, Both<depth, first, int>, second> left;
	Both<depth + 1, first, Both<depth, second, int>> right;
};
Both<0, int, int> both;
