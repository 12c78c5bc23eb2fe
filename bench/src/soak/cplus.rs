//! The C++ part of random programs: exceptions, virtual functions, templates, RTTI, static objects, guards.
//!
//! Every unit of C++ holds the same header, so that vtables, inline functions and template instances are in COMDAT
//! groups of which the linker takes one. A function sets `jump_ok` to 0 while it runs, for a longjmp over its frames
//! would skip destructors.

use super::program::Generator;

/// The header of all C++ units.
pub(super) const SHARED: &str = r#"
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
"#;

impl Generator {
    /// One statement of C++ in function `f`.
    pub(super) fn cplus(&mut self, f: usize) -> String {
        let (e, call, id) = (self.expression(1), self.call(f), self.fresh());
        let unit = self.functions[f].unit;
        let live = if self.functions[f].live { "live" } else { "dead" };
        let text = match self.rng.below(10) {
            0 | 1 => format!(
                "try {{ Trace t({e} & 3u); x += risky({e}); x += {call}; x += risky(x); }}\n\
                 catch (const Worse &w) {{ x ^= w.code; x = hash_text(x, w.what()); }}\n\
                 catch (const std::exception &w) {{ x += 3u; x = hash_text(x, w.what()); }}\n\
                 catch (unsigned v) {{ x -= v; }} catch (...) {{ x *= 3u; }}\n"
            ),
            2 => format!(
                "try {{ try {{ x += risky({e}); }} catch (const Failure &w) {{ y += {call}; if (w.code & 1u) throw; y++; }} }}\n\
                 catch (...) {{ z += 7u; }}\n"
            ),
            3 => format!(
                "{{ Shape *s = make({e}); x += s->area(y) + s->edge(z); if (Square *q = dynamic_cast<Square *>(s)) x = hash_text(x, q->name()); \
                 if (typeid(*s) == typeid(Round)) x += {call}; delete s; }}\n"
            ),
            4 => "{ Odder o; Named *n = &o; x = hash_text(x, n->name()); x += o.v; }\n".to_owned(),
            5 => format!("x += Power<{}>::of({e});\n", self.rng.range(1, 5)),
            6 => format!("x += sized((unsigned char)y, {e}) + sized((long)z, x) + shared_counter(y);\n"),
            7 => {
                // Static storage that code at start-up fills.
                self.drafts[unit]
                    .items
                    .push_str(&format!("static Trace at_start{id}_{live}(hash_text({id}u, \"start\"));\n"));
                format!("x += at_start{id}_{live}.k;\n")
            }
            8 => format!(
                "{{ unsigned (Shape::*m)(unsigned) = ({e} & 1u) ? &Shape::area : &Shape::edge; Round r(y); x += (r.*m)(z); \
                 fn l = [](unsigned p, unsigned q) -> unsigned {{ return p * 3u ^ q; }}; x += l(x, y); }}\n"
            ),
            _ => {
                self.drafts[unit]
                    .items
                    .push_str(&format!("static thread_local Trace local{id}_{live}({id});\n"));
                format!("local{id}_{live}.k += {e}; x ^= local{id}_{live}.k;\n")
            }
        };
        format!("{{ NoJump guard; (void)guard;\n{text}}}\n")
    }
}
