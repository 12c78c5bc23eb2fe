
#include <cxxabi.h>
#include <exception>
#include <new>
#include <typeinfo>
struct Noisy { unsigned k; explicit Noisy(unsigned k) : k(k) {} ~Noisy() { sum = sum * 7u + k; printf("~%u\n", k % 100u); } };
struct Runner { virtual unsigned run(unsigned x) { return simple(x, 2u); } virtual ~Runner() { sum++; } };
struct Other : Runner { unsigned k = 5; unsigned run(unsigned x) override { return simple(x, k); } };
struct Base { unsigned n; explicit Base(unsigned n) : n(n) {} virtual unsigned code() const { return n; } virtual ~Base() {} };
struct Derived : Base { using Base::Base; unsigned code() const override { return n * 3u; } };
struct Second : Runner, Base { explicit Second(unsigned n) : Base(n) {} unsigned code() const override { return n + 11u; } };
struct Telling : Base { using Base::Base; Telling(const Telling &) = default; ~Telling() { void *f[48]; sum += (unsigned)backtrace(f, 48); } };
struct Failure : std::exception, Base { using Base::Base; const char *what() const noexcept override { return "failure"; } };
#ifdef __cpp_exceptions
struct Thrower { Thrower() { sum = sum * 5u + 1u; if (sum % 4u == 1u) throw Derived(sum); } ~Thrower() { sum++; } };
struct Careful { fn f; unsigned k; ~Careful() { try { sum += f(k, 1u); } catch (abi::__forced_unwind &) { throw; } catch (...) { sum += 3u; } } };
#endif
inline unsigned shared(fn f, unsigned x) { Noisy n(x); return f(x, 3u); }
template <class T> unsigned of_type(fn f, T x) { Noisy n((unsigned)x); return f((unsigned)x, (unsigned)sizeof(T)); }
