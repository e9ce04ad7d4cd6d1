#include <assert.h>
#include <stdio.h>

int main(void) {
    long long a, b;
    while (scanf("%lld %lld", &a, &b) == 2) {
        assert(a <= b);
        printf("%lld\n", b - a);
    }
    return 0;
}
