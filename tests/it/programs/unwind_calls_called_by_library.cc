#include <cstdio>
#include <sstream>
// Objects of the program as a whole need no cleanup in main.
#ifdef CALLBACK
static std::ostringstream stream;
static void event(std::ios_base::event e, std::ios_base &, int i) { if (e == std::ios_base::imbue_event) throw i; }
int main(int argc, char **) { stream.register_callback(event, argc); stream.imbue(std::locale::classic()); return std::puts("imbued") < 0; }
#else
struct Buffer : std::streambuf { __attribute__((noinline)) int fail(int c) { if (c) throw c; return c; } int overflow(int c) override { return fail(c); } };
static Buffer buffer;
static std::ostream stream(&buffer);
int main(int argc, char **) { stream << argc; return std::printf("bad %d\n", stream.bad()) < 0; }
#endif
