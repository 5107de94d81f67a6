// Loops that some data or arguments make endless, or nearly: none of them has a bound.
#define KERNEL extern "C" __global__ void

KERNEL and_minus_two(volatile unsigned *p) { unsigned x = p[0]; while (x) { x &= x - 2; p[1] = x; } }
KERNEL double_from_zero(volatile int *p, int n) { for (int i = 0; i < n; i *= 2) p[1] = i; }
KERNEL shift_from_data(volatile unsigned *p, unsigned n) { for (unsigned i = p[0]; i < n; i <<= 1) p[1] = i; }
KERNEL double_wraps(volatile unsigned *p, unsigned n) { for (unsigned i = 3; i < n; i *= 2) p[1] = i; }
KERNEL step_of_data(volatile int *p) { for (int i = 0; i < 100; i += p[2] & 3) p[1] = i; }
KERNEL step_argument(volatile int *p, int step) { for (int i = 0; i < 100; i += step) p[1] = i; }
KERNEL byte_wraps(volatile int *p, int n) { for (unsigned char i = 0; i < n; i++) p[1] = i; }
KERNEL short_wraps(volatile int *p, int n) { for (unsigned short i = 0; i < n; i += 2) p[1] = i; }
KERNEL never_negative(volatile unsigned *p) { for (unsigned i = p[0]; i >= p[2]; i--) p[1] = i; }
KERNEL half_plus_one(volatile unsigned *p) { unsigned x = p[0]; while (x) { x = x / 2 + 1; p[1] = x; } }
KERNEL half_shift_signed(volatile int *p) { int x = p[0]; while (x) { x >>= 1; p[1] = x; } }
KERNEL quarter_shift_signed(volatile long long *p) { long long x = p[0]; while (x) { x >>= 2; p[1] = x; } }
KERNEL set_lowest(volatile unsigned *p) { unsigned x = p[0]; while (x) { x |= x - 1; p[1] = x; } }
KERNEL toggle(volatile unsigned *p) { unsigned x = p[0]; while (x) { x ^= 1u << (p[2] & 31); p[1] = x; } }
KERNEL clear_data_bit(volatile unsigned *p) { unsigned x = p[0]; while (x) { x &= ~(1u << (p[2] & 31)); p[1] = x; } }
KERNEL average_down(volatile int *p) { int x = p[0] & 1023, y = p[1] & 1023; while (x < y) { x = (x + y) / 2; p[2] = x; } }
KERNEL average_wraps(volatile int *p) { int x = p[0], y = p[1]; while (x < y) { x = (int)((unsigned)x + (unsigned)y + 1u) / 2; p[2] = x; } } // INT_MAX - 1 and INT_MAX: -1
KERNEL sift_no_advance(volatile int *a, int n) { int i = 0; while (2 * i < n) { i = 2 * i + (a[i] & 1); } }
KERNEL search_stays(volatile int *p) { int lo = 0, hi = 1000; while (lo < hi) { int m = (lo + hi) / 2; if (p[m]) lo = m; else hi = m; } }
KERNEL lower_by_maybe(volatile int *p) { short n = p[0]; while (n > 0) { n -= p[1] & 3; } }
KERNEL lower_until_equal(volatile int *p) { unsigned short n = p[0]; while (n != 0) { n -= 1 + (p[1] & 3); } }
KERNEL minus_one_quotient(volatile int *p) { int x = p[0]; while (x) { x = x / -1; p[1] = x; } }
KERNEL data_divisor(volatile int *p) { unsigned x = p[0]; while (x) { x /= (unsigned)p[2]; p[1] = x; } }
KERNEL remainder_stays(volatile unsigned *p) { unsigned x = p[0] | 1; while (x) { x = (x * 3u) % 7u; p[1] = x; } }
KERNEL collatz(volatile unsigned *p) { unsigned x = p[0]; while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; p[1] = x; } }
KERNEL root_not_equal(volatile unsigned *p) { unsigned n = p[0]; if (n < 2) return; unsigned x = n / 2, y = (x + n / x) / 2; while (y != x) { x = y; y = (x + n / x) / 2; } p[1] = x; } // of 8: 3, 2, 3, 2
KERNEL root_or_equal(volatile unsigned *p) { unsigned n = p[0]; if (n < 2) return; unsigned x = n / 2, y = (x + n / x) / 2; while (y <= x) { x = y; y = (x + n / x) / 2; } p[1] = x; }
KERNEL common_not_halved(volatile unsigned *p) { unsigned a = p[0], b = p[1]; while (b != 0) { b >>= __ffs(b) - 1; if (a > b) { unsigned t = a; a = b; b = t; } b -= a; } p[2] = a; } // a of 0: b stays
KERNEL lower_or_equal(volatile unsigned *p) { unsigned x, y = p[0] & 1023; do { x = y; y = p[1]; } while (y <= x); p[2] = x; }
