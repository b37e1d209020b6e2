/* utf8.h -- Unicode characters in bytes. */
#ifndef KVT_BASE_UTF8_H
#define KVT_BASE_UTF8_H

#include "kvt/base.h"

/* Bytes of the character that text[0..text_bytes) begins with; 0 when it is not
 * valid UTF-8 (cut short, overlong, a surrogate, past U+10FFFF). *code is then
 * left alone. */
static inline size_t kvt_utf8_decode(const char *text, size_t text_bytes, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (text_bytes == 0)
        return 0;
    unsigned char lead = (unsigned char)text[0];
    if (lead < 0x80) {
        *code = lead;
        return 1;
    }
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc0 || lead >= 0xf8 || length > text_bytes)
        return 0;
    uint32_t value = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        unsigned char next = (unsigned char)text[i];
        if ((next & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (next & 0x3fu);
    }
    bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
    if (value < least[length] || is_surrogate || value > 0x10ffff)
        return 0;
    *code = value;
    return length;
}

#endif
