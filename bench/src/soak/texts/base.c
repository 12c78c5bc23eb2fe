int fuel, jump_ok;
jmp_buf jump_to;
void *short_jump[5];
unsigned sum = 17, plain_data[32] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9};
unsigned common_data[16];
__thread unsigned per_thread = 5, per_thread_zero;
const unsigned constant_data[24] = {2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5, 9, 0, 4, 5, 2, 3, 5, 3, 6, 0, 2, 8};
fn settable;
unsigned hash_text(unsigned h, const char *s) { while (*s) h = h * 31u + (unsigned char)*s++; return h; }
unsigned add_all(int n, ...) {
  va_list l; unsigned r = 0; va_start(l, n);
  while (n-- > 0) r = r * 3u + va_arg(l, unsigned);
  va_end(l); return r;
}
void give_up(unsigned code) { if (jump_ok) longjmp(jump_to, 1 + (int)(code & 15)); printf("give up %u\n", code); exit(9); }
