// Answers guesses; exit code 42 for a guess that is right, 43 for everything else.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char **argv) {
    if (argc < 4) return 1;
    int secret = 0;
    std::ifstream(argv[1]) >> secret;
    std::ofstream message(std::string(argv[3]) + "judgemessage.txt");
    for (int round = 1; round <= 10; round++) {
        int guess = 0;
        if (!(std::cin >> guess)) {
            message << "no guess in round " << round << '\n';
            return 43;
        }
        if (guess == secret) {
            std::cout << "correct" << std::endl;
            message << "guessed in round " << round << '\n';
            return 42;
        }
        std::cout << (secret < guess ? "lower" : "higher") << std::endl;
    }
    message << "not guessed in 10 rounds\n";
    return 43;
}
