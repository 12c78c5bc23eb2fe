#include <string>

int parse(const std::string &text);
std::string print(int number);
