#include "agent/net/mailbox.h"

#include <string.h>

void mailbox_init(struct mailbox *mailbox)
{
    memset(mailbox, 0, sizeof(*mailbox));
    ENSURE(pthread_mutex_init(&mailbox->lock, NULL) == 0);
}

void mailbox_fini(struct mailbox *mailbox)
{
    (void)pthread_mutex_destroy(&mailbox->lock);
}

void mailbox_put(struct mailbox *mailbox, struct letter letter)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    ENSURE(mailbox->n_letters < MAILBOX_LETTERS_MAX);
    unsigned at = (mailbox->first + mailbox->n_letters) % MAILBOX_LETTERS_MAX;
    mailbox->letters[at] = letter;
    mailbox->n_letters++;
    (void)pthread_mutex_unlock(&mailbox->lock);
}

bool mailbox_get(struct mailbox *mailbox, struct letter *letter)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    bool has_letter = mailbox->n_letters > 0;
    if (has_letter) {
        *letter = mailbox->letters[mailbox->first];
        mailbox->first = (mailbox->first + 1) % MAILBOX_LETTERS_MAX;
        mailbox->n_letters--;
    }
    (void)pthread_mutex_unlock(&mailbox->lock);
    return has_letter;
}
