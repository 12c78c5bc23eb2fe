//! The C++ part of random programs: exceptions, virtual functions, templates, RTTI, static objects, guards.
//!
//! Every unit of C++ has the same header, so that vtables, inline functions and template instances are in COMDAT groups. A function sets
//! `jump_ok` to 0 while it runs, since a longjmp over its frames would skip destructors.

use super::program::Generator;

/// The header of all C++ units.
pub(super) const SHARED: &str = include_str!("texts/shared.hpp");

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
