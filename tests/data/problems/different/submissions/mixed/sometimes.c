/* @EXPECTED_RESULTS@: WRONG-ANSWER, RUN-ERROR */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_nsec / 1000 % 2) abort();
    puts("no number");
    return 0;
}
