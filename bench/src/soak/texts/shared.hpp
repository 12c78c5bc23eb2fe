
#include <exception>
#include <typeinfo>
#include <new>
struct NoJump { int saved; NoJump() : saved(jump_ok) { jump_ok = 0; } ~NoJump() { jump_ok = saved; } };
struct Trace { unsigned k; explicit Trace(unsigned v) : k(v) { sum += k; } ~Trace() { sum = sum * 3u + k; } };
struct Failure : std::exception {
  unsigned code; explicit Failure(unsigned c) : code(c) {}
  const char *what() const noexcept override { return "failure"; }
};
struct Worse : Failure { using Failure::Failure; const char *what() const noexcept override { return "worse"; } };
struct Shape {
  unsigned k; explicit Shape(unsigned v) : k(v) {}
  virtual unsigned area(unsigned p) { return k * p; }
  virtual unsigned edge(unsigned p) { return k + p; }
  virtual unsigned never(unsigned p) { return hash_text(p, "never"); }
  virtual ~Shape() { sum ^= k; }
};
struct Named { virtual const char *name() const { return "named"; } virtual ~Named() {} };
struct Round : Shape { using Shape::Shape; unsigned area(unsigned p) override { return p * p * 3u + k; } };
struct Square : Shape, Named {
  using Shape::Shape;
  unsigned area(unsigned p) override { return p * p; }
  const char *name() const override { return "square"; }
};
struct Odd : virtual Named { unsigned v = 3; const char *name() const override { return "odd"; } };
struct Odder : Odd, virtual Named { const char *name() const override { return "odder"; } };
template <unsigned N> struct Power { static unsigned of(unsigned x) { Trace t(N); return x * Power<N - 1>::of(x + N); } };
template <> struct Power<0> { static unsigned of(unsigned x) { return x | 1u; } };
template <class T> unsigned sized(T v, unsigned x) { static unsigned calls; calls += x; return calls * (unsigned)sizeof(T) + (unsigned)v; }
inline unsigned shared_counter(unsigned x) { static Trace t(11); t.k += x; return t.k; }
inline Shape *make(unsigned x) {
  switch (x % 3u) { case 0: return new Shape(x); case 1: return new Round(x); default: return new Square(x); }
}
inline unsigned risky(unsigned x) {
  Trace t(x & 7u);
  switch (x % 6u) {
    case 0: throw Failure(x);
    case 1: throw Worse(x + 1u);
    case 2: throw x;
    case 3: throw "text";
    default: return x * 5u;
  }
}
