// Throws.
class Throws {
    public static void main(String[] arguments) {
        System.out.println(arguments[0]);
    }
}
