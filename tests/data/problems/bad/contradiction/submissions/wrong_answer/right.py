# @EXPECTED_RESULTS@: CORRECT
print(input())
