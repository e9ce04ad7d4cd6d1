#include <stdio.h>

int main(void) {
    long long a, b;
    while (scanf("%lld %lld", &a, &b) == 2) {
        volatile long long count = 0;
        while (a != b) {
            if (a < b) a++; else b++;
            count++;
        }
        printf("%lld\n", count);
    }
    return 0;
}
