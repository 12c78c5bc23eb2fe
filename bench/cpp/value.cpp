// Writing and comparing values.
#include "value.h"

#include <cmath>
#include <iomanip>
#include <sstream>

template <> const char *Scalar<bool>::type() const { return "boolean"; }
template <> const char *Scalar<double>::type() const { return "number"; }
template <> const char *Scalar<std::string>::type() const { return "string"; }

template <> void Scalar<bool>::write(std::ostream &out, int) const { out << (v_ ? "true" : "false"); }

template <> void Scalar<double>::write(std::ostream &out, int) const {
    if (std::floor(v_) == v_ && std::fabs(v_) < 1e15) {
        out << static_cast<long long>(v_);
        return;
    }
    std::ostringstream digits;
    digits << std::setprecision(12) << v_;
    out << digits.str();
}

template <> void Scalar<std::string>::write(std::ostream &out, int) const { write_quoted(out, v_); }

template <> const Number &as<Number>(const Ref &v, size_t position) {
    auto *p = dynamic_cast<const Number *>(v.get());
    if (p == nullptr) throw TypeError(std::string("expected number, found ") + v->type(), position);
    return *p;
}

template <> const Text &as<Text>(const Ref &v, size_t position) {
    auto *p = dynamic_cast<const Text *>(v.get());
    if (p == nullptr) throw TypeError(std::string("expected string, found ") + v->type(), position);
    return *p;
}

void write_quoted(std::ostream &out, const std::string &s) {
    out << '"';
    for (unsigned char c : s) {
        switch (c) {
        case '"': out << "\\\""; break;
        case '\\': out << "\\\\"; break;
        case '\n': out << "\\n"; break;
        case '\t': out << "\\t"; break;
        default:
            if (c < 0x20)
                out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << int(c) << std::dec;
            else
                out << c;
        }
    }
    out << '"';
}

namespace {

void newline(std::ostream &out, int indent) {
    out << '\n';
    for (int i = 0; i < indent; i++) out << "  ";
}

// Arrays and objects are brackets around a list; only the element differs.
template <typename Range, typename Element>
void write_list(std::ostream &out, int indent, char open, char close, const Range &range, Element element) {
    out << open;
    bool first = true;
    for (const auto &item : range) {
        if (!first) out << ',';
        first = false;
        newline(out, indent + 1);
        element(item);
    }
    if (!first) newline(out, indent);
    out << close;
}

} // namespace

void Array::write(std::ostream &out, int indent) const {
    write_list(out, indent, '[', ']', items, [&](const Ref &v) { v->write(out, indent + 1); });
}

void Object::write(std::ostream &out, int indent) const {
    write_list(out, indent, '{', '}', members, [&](const std::pair<const std::string, Ref> &m) {
        write_quoted(out, m.first);
        out << ": ";
        m.second->write(out, indent + 1);
    });
}

bool Array::equals(const Value &other) const {
    auto *o = dynamic_cast<const Array *>(&other);
    if (o == nullptr || o->items.size() != items.size()) return false;
    for (size_t i = 0; i < items.size(); i++)
        if (!items[i]->equals(*o->items[i])) return false;
    return true;
}

bool Object::equals(const Value &other) const {
    auto *o = dynamic_cast<const Object *>(&other);
    if (o == nullptr || o->members.size() != members.size()) return false;
    for (auto a = members.begin(), b = o->members.begin(); a != members.end(); ++a, ++b)
        if (a->first != b->first || !a->second->equals(*b->second)) return false;
    return true;
}

size_t Array::weight() const {
    size_t sum = 1;
    for (const Ref &v : items) sum += v->weight();
    return sum;
}

size_t Object::weight() const {
    size_t sum = 1;
    for (const auto &m : members) sum += m.second->weight();
    return sum;
}

// Dead code that owns things, so that it has landing pads and an exception table of its own.
std::string describe_unused(const std::vector<Ref> &values) {
    std::ostringstream out;
    for (const Ref &v : values) {
        try {
            out << as<Text>(v, 0).get();
        } catch (const TypeError &e) {
            out << e.what();
        }
    }
    return out.str();
}
