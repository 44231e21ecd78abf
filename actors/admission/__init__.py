"""Admission: who is let in by a listener, with how much, before anything is answered."""
