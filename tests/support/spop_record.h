/**
 * @file tests/support/spop_record.h  What a conversation gave, written down so that two can
 *       be compared.
 *
 * Errors:    those of the writer.
 */
#ifndef TESTS_SUPPORT_SPOP_RECORD_H
#define TESTS_SUPPORT_SPOP_RECORD_H

#include "spop/cursor.h"
#include "spop/engine.h"
#include "spop/session.h"

/** An event of the agent's side. */
static inline void spop_record_event(struct spop_writer *w,
                                     const struct spop_event *event)
{
    spop_write_u8(w, (uint8_t)event->type);
    spop_write_varint(w, event->stream_id);
    spop_write_varint(w, event->frame_id);
    spop_write_string(w, event->payload);
    spop_write_u8(w, (uint8_t)event->code);
    spop_write_u8(w, event->is_peer_ending);
    spop_write_u8(w, event->is_health_check);
    spop_write_u8(w, event->is_fragmented);
}

/** An event of HAProxy's side. */
static inline void spop_record_engine_event(struct spop_writer *w,
                                            const struct spop_engine_event *event)
{
    spop_write_u8(w, (uint8_t)event->type);
    spop_write_varint(w, event->stream_id);
    spop_write_varint(w, event->frame_id);
    spop_write_string(w, event->payload);
    spop_write_u8(w, event->is_aborted);
    spop_write_u8(w, (uint8_t)event->code);
    spop_write_u8(w, event->is_agent_ending);
    spop_write_u8(w, event->is_health_check);
}

/** Whether a view lies within the bytes it is one of. */
static inline bool spop_record_is_inside(struct spop_bytes view,
                                         struct spop_bytes bytes)
{
    return view.len <= bytes.len
           && (view.len == 0
               || (view.ptr >= bytes.ptr
                   && view.ptr + view.len <= bytes.ptr + bytes.len));
}

#endif
