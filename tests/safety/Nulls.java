// SPDX-License-Identifier: MIT
// Reads a field through null again and again. The runtime does not look first: the read faults, and
// the handler of SIGSEGV that the runtime has installed makes an exception of it.

public class Nulls {
    private int value = 1;

    static int read(Nulls from) {
        return from.value;
    }

    public static void main(String[] arguments) {
        int caught = 0;
        int sum = 0;
        for (int i = 0; i < 5000; i++) {
            try {
                sum += read(i % 2 == 0 ? null : new Nulls());
            } catch (NullPointerException expected) {
                caught++;
            }
        }
        System.out.println(caught + " " + sum);
    }
}
