#include <stdio.h>
#include <string.h>

int main(void) {
    int low = 1, high = 1000;
    char answer[16] = "";
    while (strcmp(answer, "correct")) {
        int guess = (low + high) / 2;
        printf("%d\n", guess);
        fflush(stdout);
        if (scanf("%15s", answer) != 1) return 1;
        if (!strcmp(answer, "lower")) high = guess - 1; else low = guess + 1;
    }
    return 0;
}
