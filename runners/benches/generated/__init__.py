"""Pictures and talk of `bench=synthetic`: facts, drawing, questions and answers."""
