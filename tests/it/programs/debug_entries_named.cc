#include <stddef.h>
namespace outer { struct used_in_namespace { int member_of_used; }; struct unused_in_namespace { int member_of_unused; }; }
struct base_of_used { int of_base; };
struct used : base_of_used { outer::used_in_namespace inside; enum kind { first_kind, second_kind } of; int method(int x) { return x + of_base; } };
struct only_dead { int member_of_dead; };
typedef only_dead *name_of_only_dead;
template <class T> struct of_template { T held; T get() { return held; } };
static inline int inlined(used *u) { int result_of_inlined = u->of_base * 3; return result_of_inlined ^ u->inside.member_of_used; }
extern "C" int dead(name_of_only_dead d) { return d->member_of_dead + 1; }
extern "C" __attribute__((noinline)) int live(used *u) { of_template<int> t{u->of_base}; return inlined(u) + (int)t.get(); }
int main(int argc, char **) { used u{{argc}, {2}, used::second_kind}; return live(&u) + u.method(1) == 77; }
