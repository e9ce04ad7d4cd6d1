// Does what the first word of its input says. In a file that has not the name of its class.
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;

public class Behaviour {
    static class Helper {
        int add(int a, int b) { return a + b; }
    }

    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        String word = in.next();
        int a = in.nextInt(), b = in.nextInt();
        if (word.equals("slow"))
            for (long n = 0; ; n++)
                if (n < 0) break;
        if (word.equals("crashing"))
            throw new IllegalStateException("as asked for");
        if (word.equals("hungry"))
            for (List<byte[]> kept = new ArrayList<>(); ; )
                kept.add(new byte[1 << 20]);
        System.out.println(word.equals("wrong") ? a - b : new Helper().add(a, b));
    }
}
