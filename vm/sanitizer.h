/* SPDX-License-Identifier: MIT
 *
 * sanitizer.h: whether this is compiled with a sanitizer that keeps a shadow of all memory.
 *
 * Both gcc and clang are asked, each in its own way.
 */
#ifndef ALLOTROPE_VM_SANITIZER_H
#define ALLOTROPE_VM_SANITIZER_H

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#define UNDER_ADDRESS_SANITIZER 1
#endif
#ifdef __SANITIZE_THREAD__
#define UNDER_THREAD_SANITIZER 1
#endif

#ifndef UNDER_ADDRESS_SANITIZER
#define UNDER_ADDRESS_SANITIZER 0
#endif
#ifndef UNDER_THREAD_SANITIZER
#define UNDER_THREAD_SANITIZER 0
#endif

enum { UNDER_SANITIZER = UNDER_ADDRESS_SANITIZER || UNDER_THREAD_SANITIZER };

#endif
