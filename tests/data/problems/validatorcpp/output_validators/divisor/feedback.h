#pragma once

#include <fstream>
#include <string>

inline int refuse(const std::string &directory, const std::string &reason) {
    std::ofstream(directory + "judgemessage.txt") << reason << '\n';
    return 43;
}
