    #include <stdexcept>
    #include <string>
    extern void may_throw(int);
    template <class T> T twice(T x) { static T last; last = x; return x + x; }
    int catcher(int x) { try { may_throw(x); } catch (std::runtime_error &e) { return 1; } return twice(x); }
    std::string plain(std::string s) { return twice(s); }
    int main() { return catcher(1); }
