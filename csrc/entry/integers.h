/* Functions of ints as Python has them; false where it raises, or the result does not fit. For relation.c. */
#ifndef STATOR_ENTRY_INTEGERS_H
#define STATOR_ENTRY_INTEGERS_H

#include "entry.h"
#include <math.h>

static uint64_t
magnitude(int64_t number)
{
    return number < 0 ? -(uint64_t)number : (uint64_t)number;
}

static bool
int_bit_length(int64_t number, int64_t *out)
{
    uint64_t size = magnitude(number);
    *out = size == 0 ? 0 : 64 - __builtin_clzll(size);
    return true;
}

static bool
int_bit_count(int64_t number, int64_t *out)
{
    *out = __builtin_popcountll(magnitude(number));
    return true;
}

static bool
int_isqrt(int64_t number, int64_t *out)
{
    if (number < 0) {
        return false;
    }
    int64_t root = (int64_t)sqrt((double)number);
    while (root > 0 && root > number / root) {
        root--;
    }
    while (root + 1 <= number / (root + 1)) {
        root++;
    }
    *out = root;
    return true;
}

static bool
int_lshift(int64_t number, int64_t bits, int64_t *out)
{
    return bits >= 0 && bits < 63 && !__builtin_mul_overflow(number, (int64_t)1 << bits, out);
}

static bool
int_rshift(int64_t number, int64_t bits, int64_t *out)
{
    int64_t shift = bits < 63 ? bits : 63;
    if (bits < 0) {
        return false;
    }
    *out = number < 0 ? ~(~number >> shift) : number >> shift;
    return true;
}

#define INT_BITS(name, op)                                           \
    static bool int_##name(int64_t left, int64_t right, int64_t *out) \
    {                                                                 \
        *out = left op right;                                         \
        return true;                                                  \
    }
INT_BITS(and_, &)
INT_BITS(or_, |)
INT_BITS(xor, ^)

static bool
int_gcd(int64_t left, int64_t right, int64_t *out)
{
    uint64_t a = magnitude(left), b = magnitude(right);
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    *out = (int64_t)a;
    return a <= INT64_MAX;
}

static bool
int_pow(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    if (exponent < 0 || (exponent > 64 && base != 0 && base != 1)) {
        return false;
    }
    for (int64_t i = 0, rounds = exponent > 64 ? 1 : exponent; i < rounds; i++) {
        if (__builtin_mul_overflow(result, base, &result)) {
            return false;
        }
    }
    *out = result;
    return true;
}

#endif
