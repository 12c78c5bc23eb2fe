#include <stdexcept>
extern "C" int through_c(void (*callback)(int), int x);
int elsewhere(void (*callback)(int), int x) { try { return through_c(callback, x); } catch (std::exception &) { return 1; } }
