#include <stdexcept>
#include <string>
#include <vector>
#include <map>
struct Base { virtual ~Base(); virtual int f() { return 1; } };
template <class T> struct Box : Base { T t{}; int f() override { return int(sizeof(T)); } static int count; };
template <class T> int Box<T>::count = 5;
inline int inline_both(int x) { static int calls; if (x < 0) throw std::runtime_error("neg"); return ++calls; }
inline int inline_dead(int x) { static int calls; if (x < 0) throw std::logic_error("x"); return ++calls; }
inline int inline_variable = 3;
int other(int); int other_dead(int);
