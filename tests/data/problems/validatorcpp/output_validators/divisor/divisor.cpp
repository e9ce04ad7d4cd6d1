// divisor INPUT ANSWER FEEDBACK proper < OUTPUT
#include "feedback.h"

#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char **argv) {
    if (argc != 5 || std::string(argv[4]) != "proper") return 1;
    long long number = 0, divisor = 0;
    std::string exists, more;
    std::ifstream(argv[1]) >> number;
    std::ifstream(argv[2]) >> exists;
    if (!(std::cin >> divisor)) return refuse(argv[3], "no number");
    if (std::cin >> more) return refuse(argv[3], "more than one number");
    if (divisor == 0) return exists == "no" ? 42 : refuse(argv[3], "there is a divisor");
    if (divisor <= 1 || divisor >= number) return refuse(argv[3], "not a proper divisor");
    return number % divisor == 0 ? 42 : refuse(argv[3], "not a divisor");
}
