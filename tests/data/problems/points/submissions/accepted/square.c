#include <stdio.h>

int main(void) {
    long long n, base = 2, result = 1;
    if (scanf("%lld", &n) != 1) return 1;
    for (; n; n >>= 1) {
        if (n & 1) result = result * base % {{modulus}};
        base = base * base % {{modulus}};
    }
    printf("%lld\n", result);
    return 0;
}
