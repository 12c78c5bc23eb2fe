// A recursive-descent reader of JSON with positions in its errors.
#include "value.h"

#include <cctype>
#include <cstdlib>

namespace {

class Reader {
public:
    explicit Reader(const std::string &text) : text_(text) {}

    Ref document() {
        Ref v = value(0);
        space();
        if (at_ != text_.size()) fail("trailing characters");
        return v;
    }

private:
    const std::string &text_;
    size_t at_ = 0;

    [[noreturn]] void fail(const std::string &what) const { throw Error("json: " + what, at_); }

    void space() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) at_++;
    }

    bool take(char c) {
        space();
        if (at_ < text_.size() && text_[at_] == c) {
            at_++;
            return true;
        }
        return false;
    }

    void expect(char c) {
        if (!take(c)) fail(std::string("expected '") + c + "'");
    }

    bool word(const char *w) {
        std::string s(w);
        if (text_.compare(at_, s.size(), s) != 0) return false;
        at_ += s.size();
        return true;
    }

    Ref value(int depth) {
        if (depth > 200) fail("too deep");
        space();
        if (at_ >= text_.size()) fail("unexpected end");
        switch (text_[at_]) {
        case '{': return object(depth);
        case '[': return array(depth);
        case '"': return text(string());
        case 't': if (word("true")) return boolean(true); break;
        case 'f': if (word("false")) return boolean(false); break;
        case 'n': if (word("null")) return null(); break;
        default: break;
        }
        const char *begin = text_.c_str() + at_;
        char *end = nullptr;
        double d = std::strtod(begin, &end);
        if (end == begin) fail("unexpected character");
        at_ += static_cast<size_t>(end - begin);
        return number(d);
    }

    Ref array(int depth) {
        auto result = std::make_shared<Array>();
        expect('[');
        if (take(']')) return result;
        do result->items.push_back(value(depth + 1));
        while (take(','));
        expect(']');
        return result;
    }

    Ref object(int depth) {
        auto result = std::make_shared<Object>();
        expect('{');
        if (take('}')) return result;
        do {
            space();
            std::string key = string();
            expect(':');
            result->members[key] = value(depth + 1);
        } while (take(','));
        expect('}');
        return result;
    }

    std::string string() {
        if (at_ >= text_.size() || text_[at_] != '"') fail("expected a string");
        std::string out;
        for (at_++; at_ < text_.size() && text_[at_] != '"'; at_++) {
            char c = text_[at_];
            if (c != '\\') {
                out += c;
                continue;
            }
            if (++at_ >= text_.size()) break;
            switch (text_[at_]) {
            case 'n': out += '\n'; break;
            case 't': out += '\t'; break;
            case 'u': out += escape(); break;
            default: out += text_[at_];
            }
        }
        if (at_ >= text_.size()) fail("unterminated string");
        at_++;
        return out;
    }

    // Four hexadecimal digits, as UTF-8.
    std::string escape() {
        if (at_ + 4 >= text_.size()) fail("short escape");
        unsigned long code = std::stoul(text_.substr(at_ + 1, 4), nullptr, 16);
        at_ += 4;
        if (code < 0x80) return std::string(1, static_cast<char>(code));
        if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
        return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
                static_cast<char>(0x80 | (code & 63))};
    }
};

} // namespace

Ref parse_json(const std::string &text) { return Reader(text).document(); }
