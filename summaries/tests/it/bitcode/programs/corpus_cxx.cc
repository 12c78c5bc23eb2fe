#include <string>
#include <vector>
#include <memory>
#include <stdexcept>
struct Base { virtual int f() { return 1; } virtual int g(); virtual ~Base(); };
int Base::g() { return 2; }
Base::~Base() {}
struct Derived final : Base { int f() override { return 3; } int g() override; std::string s; };
int Derived::g() { try { if (s.empty()) throw std::runtime_error(s); } catch (const std::exception &e) { return 5; } return 4; }
namespace { struct Hidden : Base { int f() override { return 6; } }; }
template <class T> T twice(T x) { static T cache = x; return cache + x; }
inline thread_local int counter = 0;
int call(Base &b) { counter++; return b.f() + b.g(); }
std::unique_ptr<Base> make(int i) { if (i) return std::make_unique<Derived>(); return std::make_unique<Hidden>(); }
int use(std::vector<std::string> &v) { v.push_back("x"); return twice(2) + static_cast<int>(twice<std::string>("y").size()); }
