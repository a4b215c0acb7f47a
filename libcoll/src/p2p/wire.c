/* Checks of headers that arrive. */
#include "p2p/wire.h"

const char *coll__wire_check(const void *packet, size_t packet_bytes) {
    const coll__wire_header_t *header = packet;
    if (packet_bytes < sizeof *header)
        return "it is shorter than a header";
    if (header->version != COLL__WIRE_VERSION)
        return "its version is another one";
    if (header->kind < COLL__WIRE_EAGER || header->kind >= COLL__WIRE_KINDS)
        return "its kind is unknown";
    if (header->zero != 0)
        return "its reserved field is not zero";
    size_t payload = packet_bytes - sizeof *header;
    if (header->kind == COLL__WIRE_EAGER ? header->bytes != payload : payload != 0)
        return "its length is not the one that its header says";
    return NULL;
}
