#include "agent/net/handover.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/net/connection.h"

/* What goes before the bytes of `in` and `out`. */
struct wire {
    uint64_t stream_id; /* of fragments that are swallowed, as the next */
    uint64_t frame_id;
    uint32_t state;
    uint32_t fragments_state;
    uint32_t frame_bytes_max;
    uint32_t n_unknown_frames;
    uint32_t in_len;
    uint32_t out_len;
};

_Static_assert(sizeof(struct wire) + SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MAX
                       + CONNECTION_OUT_BYTES
                   <= CHANNEL_BYTES_MAX,
               "any connection is one packet");

enum channel_status handover_send(int channel_fd, const struct handover *handover)
{
    struct wire wire = {
        .stream_id = handover->session.fragments.stream_id,
        .frame_id = handover->session.fragments.frame_id,
        .state = handover->session.state,
        .fragments_state = handover->session.fragments.state,
        .frame_bytes_max = (uint32_t)handover->session.frame_bytes_max,
        .n_unknown_frames = handover->session.n_unknown_frames,
        .in_len = (uint32_t)handover->in.len,
        .out_len = (uint32_t)handover->out.len,
    };
    struct iovec parts[] = {channel_part(&wire, sizeof(wire)),
                            channel_part(handover->in.ptr, handover->in.len),
                            channel_part(handover->out.ptr, handover->out.len)};
    return channel_send(channel_fd, CHANNEL_CONNECTION, parts, ARRAY_LEN(parts),
                        handover->fd);
}

/* The session that `wire` describes; false when there is no such session. */
static bool session_of(const struct wire *wire, struct spop_session *session)
{
    spop_session_init(session);
    session->n_unknown_frames = wire->n_unknown_frames;
    if (wire->n_unknown_frames > SPOP_UNKNOWN_FRAMES_MAX) {
        return false;
    }
    if (wire->state == SPOP_SESSION_NEW) {
        return wire->frame_bytes_max == 0
               && wire->fragments_state == SPOP_FRAGMENTS_NONE;
    }
    session->state = SPOP_SESSION_OPEN;
    if (wire->fragments_state == SPOP_FRAGMENTS_SWALLOWED) {
        session->fragments.state = SPOP_FRAGMENTS_SWALLOWED;
        session->fragments.stream_id = wire->stream_id;
        session->fragments.frame_id = wire->frame_id;
    } else if (wire->fragments_state != SPOP_FRAGMENTS_NONE) {
        return false;
    }
    session->frame_bytes_max = wire->frame_bytes_max;
    session->receive_bytes_max = wire->frame_bytes_max;
    return wire->state == SPOP_SESSION_OPEN
           && wire->frame_bytes_max >= SPOP_FRAME_SIZE_MIN
           && wire->frame_bytes_max <= SPOP_FRAME_SIZE_MAX;
}

static struct handover *decode(const struct channel_packet *packet,
                               const uint8_t *bytes)
{
    struct wire wire;
    struct handover head = {.fd = packet->fd};
    if (packet->len < sizeof(wire)) {
        return NULL;
    }
    memcpy(&wire, bytes, sizeof(wire));
    if (!session_of(&wire, &head.session)
        || wire.in_len > connection_in_bytes(&head.session)
        || wire.out_len > CONNECTION_OUT_BYTES
        || packet->len != sizeof(wire) + (size_t)wire.in_len + wire.out_len) {
        return NULL;
    }
    struct handover *handover = malloc(sizeof(*handover) + wire.in_len + wire.out_len);
    if (handover == NULL) {
        return NULL;
    }
    uint8_t *behind = (uint8_t *)(handover + 1);
    memcpy(behind, bytes + sizeof(wire), (size_t)wire.in_len + wire.out_len);
    *handover = head;
    handover->in = (struct spop_bytes){.ptr = behind, .len = wire.in_len};
    handover->out = (struct spop_bytes){.ptr = behind + wire.in_len,
                                        .len = wire.out_len};
    return handover;
}

struct handover *handover_receive(const struct channel_packet *packet,
                                  const uint8_t *bytes)
{
    struct handover *handover = decode(packet, bytes);
    if (handover == NULL) {
        (void)close(packet->fd);
    }
    return handover;
}
