/* SPDX-License-Identifier: MIT
 *
 * native.c: the library of Native.java. A list whose head only Java has, as a number; references
 * that only a table here has; strings and arrays of Java's, taken over and given back.
 */
#include <jni.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    char *name;
    int value;
};

static jobject *table;
static int entries;

JNIEXPORT jlong JNICALL Java_Native_make(JNIEnv *env, jclass type, jlong next, jint value,
                                         jstring name)
{
    struct node *node = malloc(sizeof *node);
    const char *text = (*env)->GetStringUTFChars(env, name, NULL);
    (void)type;
    node->next = (struct node *)(intptr_t)next;
    node->name = strdup(text);
    node->value = value;
    (*env)->ReleaseStringUTFChars(env, name, text);
    return (jlong)(intptr_t)node;
}

JNIEXPORT jint JNICALL Java_Native_sum(JNIEnv *env, jclass type, jlong list, jobject names)
{
    jclass builder = (*env)->GetObjectClass(env, names);
    jmethodID append = (*env)->GetMethodID(env, builder, "append",
                                           "(Ljava/lang/String;)Ljava/lang/StringBuilder;");
    jint sum = 0;
    (void)type;
    for (struct node *node = (struct node *)(intptr_t)list; node; node = node->next) {
        jstring text = (*env)->NewStringUTF(env, node->name);
        (*env)->DeleteLocalRef(env, (*env)->CallObjectMethod(env, names, append, text));
        (*env)->DeleteLocalRef(env, text);
        sum += node->value;
    }
    return sum;
}

JNIEXPORT void JNICALL Java_Native_drop(JNIEnv *env, jclass type, jlong list)
{
    struct node *node = (struct node *)(intptr_t)list;
    (void)env, (void)type;
    while (node) {
        struct node *next = node->next;
        free(node->name);
        free(node);
        node = next;
    }
}

JNIEXPORT void JNICALL Java_Native_fill(JNIEnv *env, jclass type, jintArray array, jint seed)
{
    jsize length = (*env)->GetArrayLength(env, array);
    jint *elements = (*env)->GetIntArrayElements(env, array, NULL);
    (void)type;
    for (jsize i = 0; i < length; i++)
        elements[i] = (i * 7919 + seed) % 997;
    (*env)->ReleaseIntArrayElements(env, array, elements, 0);
}

JNIEXPORT void JNICALL Java_Native_keep(JNIEnv *env, jclass type, jobject object)
{
    (void)type;
    table = realloc(table, sizeof *table * (size_t)(entries + 1));
    table[entries++] = (*env)->NewGlobalRef(env, object);
}

JNIEXPORT jobject JNICALL Java_Native_kept(JNIEnv *env, jclass type, jint index)
{
    (void)env, (void)type;
    return table[index];
}

JNIEXPORT jlong JNICALL Java_Native_callBack(JNIEnv *env, jclass type, jobject object, jint times)
{
    jmethodID called = (*env)->GetMethodID(env, type, "called", "(I)I");
    jlong sum = 0;
    for (jint i = 0; i < times; i++)
        sum += (*env)->CallIntMethod(env, object, called, i);
    return sum;
}
